"""python -m infra.deploy deploy|destroy|steps: settings are variables, as `make deploy` takes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error, visible_line
from infra.deploy.kept import kept_addresses, what_it_costs
from infra.deploy.next import how_to_use
from infra.deploy.order import all_steps, deploy, destroy, planned, removals
from infra.deploy.runs import runs_at_work
from infra.deploy.settings import Settings
from infra.deploy.site import Site
from infra.deploy.tools import Tools

NEEDED = {"aws": ["terraform", "aws"], "gcp": ["terraform", "gcloud"], "local": []}
EXIT_INPUT, EXIT_STOPPED = 2, 130


def main(arguments: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Deploy, destroy, or name the steps; return the exit status."""
    verbs = {"deploy": _deploy, "destroy": _destroy, "steps": _steps}
    if len(arguments) != 1 or arguments[0] not in verbs:
        print("usage: make deploy|destroy CLOUD=aws|gcp|local CONTEXT=name (infra/deploy/README.md)", file=sys.stderr)
        return EXIT_INPUT
    try:
        settings = Settings.read(environ)
        site = Site(settings, Tools(environ))
        if arguments[0] != "steps" and (absent := site.tools.missing(needed(settings))):
            print("missing programs:", *absent, sep="\n  ", file=sys.stderr)
            return 1
        return verbs[arguments[0]](site)
    except PosttrainError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return EXIT_STOPPED


def needed(settings: Settings) -> list[str]:
    """Return the programs that a deployment needs."""
    pushes = settings.is_cloud and set(settings.kinds) - set(settings.images)
    found = ["kubectl", "helm", *NEEDED[settings.cloud]]
    has_docker = Tools().find("docker") is not None
    return [
        *found,
        *(["git"] if "kubeflow" in settings.engines else []),
        *(["podman"] if pushes and not has_docker else []),
    ]


def _deploy(site: Site) -> int:
    steps = all_steps(site)
    if not planned(steps, print):
        deploy(site, steps, lambda _: None)  # what is unchanged may yet have to become ready
        print("nothing to change")
    elif site.settings.plan_only:
        return 0
    elif not _agreed(site, "Apply this?"):
        return 1
    else:
        deploy(site, steps, lambda text: print(text, flush=True))
    print(how_to_use(site))
    return 0


def _destroy(site: Site) -> int:
    if busy := runs_at_work(site):
        print(
            "runs are at work; cancel them first (posttrain cancel RUN):",
            *map(visible_line, busy),
            sep="\n  ",
            file=sys.stderr,
        )
        return 1
    steps = removals(all_steps(site), print)
    _tell_what_stays(site)
    if not steps:
        print("nothing to remove")
        return 0
    if site.settings.plan_only:
        return 0
    if not _agreed(site, "Remove all this?"):
        return 1
    destroy(site, steps, lambda text: print(text, flush=True))
    _tell_what_stays(site)
    return 0


def _steps(site: Site) -> int:
    print("\n".join(step.name for step in all_steps(site)))
    return 0


def _tell_what_stays(site: Site) -> None:
    """Say what is not removed, and what of it costs money."""
    if not site.settings.is_cloud or site.settings.destroy_data:
        return
    addresses = site.terraform("state", "list", fine=(0, 1)).stdout.split()
    stays = sorted(kept_addresses(site.settings.cloud, addresses))
    if stays:
        print(f"stays: {len(stays)} resources with your data; DATA=destroy removes them, too")
        for line in what_it_costs(stays):
            print(f"    {line}")


def _agreed(site: Site, question: str) -> bool:
    """Return whether a person says yes, or said so by YES=1."""
    if site.settings.yes:
        return True
    if not sys.stdin.isatty():
        print("nothing was changed: say YES=1 where nobody can be asked", file=sys.stderr)
        return False
    return input(f"{question} Type yes: ").strip() == "yes"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
