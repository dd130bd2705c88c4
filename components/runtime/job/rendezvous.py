"""Rendezvous of a job's ranks: a small key-value server, and the process group that is created through it.

torchrun hosts the server if it started the ranks. Otherwise the first rank hosts it, both for ranks that it starts
itself and for ranks of another launcher, such as DeepSpeed's.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from components.contract.job import Resources
from components.runtime.checkpoints.shards import Shards
from components.runtime.system.mesh import arrange
from components.runtime.system.waits import seconds_of

if TYPE_CHECKING:
    from torch.distributed import Store

ORDER, ERROR, DONE = "posttrain/order", "posttrain/error/{}", "posttrain/done/{}"
ERRORS = "posttrain/errors"
"""Counts errors, so that the first can be told from those that follow from it."""
LEFT = "posttrain/left/{}"
OWN = "POSTTRAIN_RANKS_OF"
"""Set to the first rank's process id in the ranks that it started itself."""
HOLDS_SERVER = "TORCHELASTIC_USE_AGENT_STORE"
"""Set to True by torchrun if it hosts the server."""
LOCAL = "127.0.0.1"
ORDER_WAIT = timedelta(days=7)
"""The first rank may have to wait for another run that holds the job's lock before it publishes."""
COLLECTIVE_WAIT = timedelta(hours=2)
"""Longest wait of ranks for one another, such as for a checkpoint; the end of a rank is noticed at once."""
COLLECTIVE_SECONDS = "POSTTRAIN_COLLECTIVE_SECONDS"
"""Replaces it."""


@dataclass(frozen=True)
class RankPlace:
    """This process's position among the ranks of a job."""

    rank: int
    world: int
    local_rank: int
    node: int

    @classmethod
    def of_environment(cls) -> RankPlace | None:
        """Return the position that a launcher or the first rank gave this process; None if neither did.

        torchrun sets the node in GROUP_RANK, the DeepSpeed launcher in CROSS_RANK.
        """
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        if not all(name in os.environ for name in names):
            return None
        rank, world, local_rank = (int(os.environ[name]) for name in names[:3])
        node = next((os.environ[name] for name in ("GROUP_RANK", "CROSS_RANK") if name in os.environ), "0")
        return cls(rank, world, local_rank, int(node))

    def environment(self, port: int, leader: int) -> dict[str, str]:
        """Return the environment variables of a rank on this machine."""
        numbers = {"RANK": self.rank, "WORLD_SIZE": self.world, "LOCAL_RANK": self.local_rank, "GROUP_RANK": self.node}
        plain = {name: str(number) for name, number in numbers.items()}
        return {**plain, "MASTER_ADDR": LOCAL, "MASTER_PORT": str(port), OWN: str(leader)}


class Rendezvous:
    """What ranks exchange outside the process group, through keys of the server: the task, errors and readiness."""

    def __init__(self, store: Store, place: RankPlace, group_store: Store) -> None:
        """`group_store` is a second connection: creating the group blocks it, while errors must still get through."""
        self.store, self.place, self._group_store = store, place, group_store
        store.set_timeout(ORDER_WAIT)

    @classmethod
    def host(cls, world: int) -> tuple[Rendezvous, int]:
        """Start the server for ranks that this process will start on this machine; return it with its port."""
        from torch.distributed import TCPStore

        store = TCPStore(LOCAL, 0, is_master=True, wait_for_workers=False, timeout=ORDER_WAIT)
        return cls(store, RankPlace(0, world, 0, 0), _client(LOCAL, store.port)), store.port

    @classmethod
    def join(cls, place: RankPlace) -> Rendezvous:
        """Connect to the server of this process's job."""
        from torch.distributed.rendezvous import rendezvous

        if _launcher_holds_server():
            store, _, _ = next(rendezvous("env://", place.rank, place.world, timeout=ORDER_WAIT))
            return cls(store, place, store)
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if OWN not in os.environ and not place.rank:
            _serve(where[1])
        return cls(_client(*where), place, _client(*where))

    def publish(self, order: dict[str, Any] | None) -> None:
        """Publish what the other ranks run; None means nothing."""
        self.store.set(ORDER, json.dumps(order))

    def publish_nothing(self) -> None:
        """Publish that there is nothing to run, unless something has been published."""
        if not self.store.check([ORDER]):
            self.publish(None)

    def wait_for_others(self, seconds: float) -> None:
        """Wait until the other ranks have disconnected, if this process hosts the server."""
        if not _launcher_holds_server():
            keys = [LEFT.format(rank) for rank in range(1, self.place.world)]
            with suppress(RuntimeError):  # the launcher ends a rank that hangs or is gone
                self.store.wait(keys, timedelta(seconds=seconds))

    def leave(self) -> None:
        """Publish that this rank no longer uses the server; ignore a server that is gone."""
        with suppress(RuntimeError):
            self.store.set(LEFT.format(self.place.rank), b"1")

    def wait(self) -> dict[str, Any] | None:
        """Wait for what the first rank publishes and return it."""
        order: dict[str, Any] | None = json.loads(self.store.get(ORDER))
        return order

    def report_error(self, message: str) -> None:
        """Publish why this rank ends."""
        number = self.store.add(ERRORS, 1)
        self.store.set(ERROR.format(self.place.rank), json.dumps([number, message]))

    def finish(self) -> None:
        """Publish that this rank has run the component to its end."""
        self.store.set(DONE.format(self.place.rank), b"1")

    def shards(self) -> Shards:
        """Return how the checkpoints of the ranks come together."""
        return Shards(self.store, self.place.rank, self.place.world)

    def has_finished(self, rank: int) -> bool:
        """Return whether a rank has published that it is done."""
        return bool(self.store.check([DONE.format(rank)]))

    def errors(self) -> list[tuple[int, str]]:
        """Return the ranks that published an error, with the error, in the order in which they did."""
        found = []
        for rank in range(1, self.place.world):
            if self.store.check([ERROR.format(rank)]):
                number, message = json.loads(self.store.get(ERROR.format(rank)))
                found.append((number, rank, message))
        return [(rank, message) for _, rank, message in sorted(found)]

    def another_connection(self) -> Store:
        """Return a connection to the server that a thread can use while this one is busy."""
        return _client(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))

    def wait_for_node(self) -> None:
        """Wait until the first rank of this machine has fetched what all of them read."""
        self.store.get(f"posttrain/fetched/{self.place.node}")

    def report_node_ready(self) -> None:
        """Publish that the files that this machine's ranks read have been fetched."""
        self.store.set(f"posttrain/fetched/{self.place.node}", b"1")

    def gather(self, resources: Resources, *, cuda: bool) -> None:
        """Initialise torch.distributed for the component; a collective call of all ranks."""
        import torch
        from torch.distributed import PrefixStore, init_process_group

        if cuda:
            torch.cuda.set_device(self.place.local_rank % torch.cuda.device_count())
        init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=PrefixStore("posttrain/group", self._group_store),
            rank=self.place.rank,
            world_size=self.place.world,
            timeout=collective_wait(),
        )
        arrange(tensor=resources.tensor_parallel, context=resources.context_parallel)


def collective_wait() -> timedelta:
    """Return the longest wait of ranks for one another. Raises InputError for an invalid number of seconds."""
    return timedelta(seconds=seconds_of(COLLECTIVE_SECONDS, COLLECTIVE_WAIT.total_seconds(), os.environ))


def _client(address: str, port: int) -> Store:
    from torch.distributed import TCPStore

    return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=ORDER_WAIT)


@cache
def _serve(port: int) -> Store:
    """Host the server until this process ends."""
    from torch.distributed import TCPStore

    return TCPStore(LOCAL, port, is_master=True, wait_for_workers=False, timeout=ORDER_WAIT)


def _launcher_holds_server() -> bool:
    return OWN not in os.environ and os.environ.get(HOLDS_SERVER) == "True"
