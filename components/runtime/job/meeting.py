"""Where the ranks of a job meet: a small key-value server, and the group of processes that is made over it.

Either torchrun has started all ranks and holds the server, or the first rank does: for those that it starts itself, and
for those of another launcher, such as that of DeepSpeed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import Store

ORDER, ERROR, DONE = "posttrain/order", "posttrain/error/{}", "posttrain/done/{}"
LEFT = "posttrain/left/{}"
OWN = "POSTTRAIN_RANKS_OF"
"""Set for ranks that the first one has started itself, to its process id."""
HOLDS_SERVER = "TORCHELASTIC_USE_AGENT_STORE"
"""What torchrun sets to True where it holds the server."""
LOCAL = "127.0.0.1"
ORDER_WAIT = timedelta(days=7)
"""Another run may hold the job's lock, so what the first rank says may take long."""
COLLECTIVE_WAIT = timedelta(hours=2)
"""Longest that ranks wait for one another, such as for a checkpoint; one that ends is noticed at once."""


@dataclass(frozen=True)
class Place:
    """This process among the ranks of a job."""

    rank: int
    world: int
    local_rank: int
    node: int

    @classmethod
    def of_environment(cls) -> Place | None:
        """Return the place that a launcher, or the first rank, has given to this process; None if nobody has.

        torchrun says the node by GROUP_RANK, and the launcher of DeepSpeed by CROSS_RANK.
        """
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        if not all(name in os.environ for name in names):
            return None
        rank, world, local_rank = (int(os.environ[name]) for name in names[:3])
        node = next((os.environ[name] for name in ("GROUP_RANK", "CROSS_RANK") if name in os.environ), "0")
        return cls(rank, world, local_rank, int(node))

    def environment(self, port: int, leader: int) -> dict[str, str]:
        """Return what tells a rank on this machine its place."""
        numbers = {"RANK": self.rank, "WORLD_SIZE": self.world, "LOCAL_RANK": self.local_rank, "GROUP_RANK": self.node}
        plain = {name: str(number) for name, number in numbers.items()}
        return {**plain, "MASTER_ADDR": LOCAL, "MASTER_PORT": str(port), OWN: str(leader)}


class Meeting:
    """What a rank says to the others outside of the group."""

    def __init__(self, store: Store, place: Place, group_store: Store) -> None:
        """`group_store` is another connection: making the group blocks its own, and news must get through meanwhile."""
        self.store, self.place, self._group_store = store, place, group_store
        store.set_timeout(ORDER_WAIT)

    @classmethod
    def host(cls, world: int) -> tuple[Meeting, int]:
        """Return the meeting of ranks that this process will start on this machine, and the server's port."""
        from torch.distributed import TCPStore

        store = TCPStore(LOCAL, 0, is_master=True, wait_for_workers=False, timeout=ORDER_WAIT)
        return cls(store, Place(0, world, 0, 0), _client(LOCAL, store.port)), store.port

    @classmethod
    def join(cls, place: Place) -> Meeting:
        """Return the meeting that this process was started for."""
        from torch.distributed.rendezvous import rendezvous

        if _launcher_holds_server():
            store, _, _ = next(rendezvous("env://", place.rank, place.world, timeout=ORDER_WAIT))
            return cls(store, place, store)
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if OWN not in os.environ and not place.rank:
            _serve(where[1])
        return cls(_client(*where), place, _client(*where))

    def say(self, order: dict[str, Any] | None) -> None:
        """Tell the other ranks what to run; None: nothing."""
        self.store.set(ORDER, json.dumps(order))

    def say_if_silent(self) -> None:
        """Tell the other ranks that there is nothing to run, unless they were told something."""
        if not self.store.check([ORDER]):
            self.say(None)

    def see_off(self, seconds: float) -> None:
        """Wait until the other ranks have left, where this process holds the server that they still speak to."""
        if not _launcher_holds_server():
            keys = [LEFT.format(rank) for rank in range(1, self.place.world)]
            with suppress(RuntimeError):  # one that hangs or is gone is the launcher's to end
                self.store.wait(keys, timedelta(seconds=seconds))

    def leave(self) -> None:
        """Leave word that this rank says nothing more; the server may be gone, then nobody wants to know."""
        with suppress(RuntimeError):
            self.store.set(LEFT.format(self.place.rank), b"1")

    def hear(self) -> dict[str, Any] | None:
        """Wait for what the first rank says."""
        order: dict[str, Any] | None = json.loads(self.store.get(ORDER))
        return order

    def complain(self, message: str) -> None:
        """Leave word of why this rank ends."""
        self.store.set(ERROR.format(self.place.rank), message)

    def finish(self) -> None:
        """Leave word that this rank has run the component to its end."""
        self.store.set(DONE.format(self.place.rank), b"1")

    def has_done(self, rank: int) -> bool:
        """Return whether a rank has left word that it is done."""
        return bool(self.store.check([DONE.format(rank)]))

    def complaint(self) -> tuple[int, str] | None:
        """Return the first rank that left word, and its word."""
        for rank in range(1, self.place.world):
            if self.store.check([ERROR.format(rank)]):
                return rank, self.store.get(ERROR.format(rank)).decode()
        return None

    def wait_for_node(self) -> None:
        """Wait until the first rank of this machine has fetched what all of them read."""
        self.store.get(f"posttrain/fetched/{self.place.node}")

    def node_is_ready(self) -> None:
        """Tell the other ranks of this machine that what they read is here."""
        self.store.set(f"posttrain/fetched/{self.place.node}", b"1")

    def gather(self, *, cuda: bool) -> None:
        """Make the group of processes that components find in torch.distributed; all ranks must come."""
        import torch
        from torch.distributed import PrefixStore, init_process_group

        if cuda:
            torch.cuda.set_device(self.place.local_rank % torch.cuda.device_count())
        init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=PrefixStore("posttrain/group", self._group_store),
            rank=self.place.rank,
            world_size=self.place.world,
            timeout=COLLECTIVE_WAIT,
        )


def _client(address: str, port: int) -> Store:
    from torch.distributed import TCPStore

    return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=ORDER_WAIT)


@cache
def _serve(port: int) -> Store:
    """Hold the server until this process ends."""
    from torch.distributed import TCPStore

    return TCPStore(LOCAL, port, is_master=True, wait_for_workers=False, timeout=ORDER_WAIT)


def _launcher_holds_server() -> bool:
    return OWN not in os.environ and os.environ.get(HOLDS_SERVER) == "True"
