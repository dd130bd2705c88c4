"""Step images: the images of this tree go to the cloud's registry, and are named by digest from then on."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from infra.deploy.settings import INFRA
from infra.deploy.site import Change, Site
from infra.deploy.tools import LONG_SECONDS, StepFailed

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Images:
    """Images that nobody names in POSTTRAIN_IMAGE_*: built where they are missing, and pushed where they changed."""

    name = "images"

    def __init__(self, site: Site) -> None:
        self.site = site

    def plan(self) -> Change:
        """Return which images have yet to be pushed."""
        if not self.site.settings.is_cloud:
            if absent := [kind for kind in self._ours() if kind != "gpu"]:
                names = " and ".join(f"POSTTRAIN_IMAGE_{kind.upper()}" for kind in absent)
                raise StepFailed(f"set {names} to name@sha256:<digest> of a registry that the cluster can pull from")
            return Change()
        pushed = self.site.kept("images.json")
        lines = []
        for kind in self._ours():
            built = self._built(kind)
            if not built:
                lines.append(f"+ posttrain-{kind} (it is built first)")
            elif built != pushed.get(kind, {}).get("built"):
                lines.append(f"{'~' if kind in pushed else '+'} posttrain-{kind} {built[:19]}")
        return Change(lines)

    def apply(self) -> None:
        """Build what is missing, push what has changed, and keep the digests."""
        for kind in self._ours():
            if not self._built(kind):
                self.site.tools.run(str(INFRA / "images" / "build.sh"), kind, seconds=LONG_SECONDS, shown=True)
            built, pushed = self._built(kind), self.site.kept("images.json")
            if built == pushed.get(kind, {}).get("built"):
                continue
            self.site.keep("images.json", {**pushed, kind: {"built": built, "name": self._push(kind, built)}})

    def wait(self) -> None:
        """Nothing: a push ends when the image is there."""

    def removal(self) -> Change:
        """Nothing: images go with their registry (DATA=destroy)."""
        return Change()

    def remove(self) -> None:
        """Nothing."""

    def _ours(self) -> list[str]:
        return [kind for kind in self.site.settings.kinds if kind not in self.site.settings.images]

    def _built(self, kind: str) -> str:
        """Return the ID of this machine's image; nothing if it was not built."""
        words = ("image", "inspect", "--format", "{{.Id}}", f"posttrain-{kind}:latest")
        done = self.site.tools.run(self._program, *words, fine=(0, 1, 125))
        return done.stdout.strip() if done.returncode == 0 else ""

    def _push(self, kind: str, built: str) -> str:
        """Push an image under a tag that means only it; return its name with the digest."""
        registry = self.site.outputs.get("registries", {}).get(f"posttrain-{kind}")
        if not registry:
            raise StepFailed(f"terraform made no repository for posttrain-{kind}: take the step cloud first")
        self._log_in(registry.partition("/")[0])
        tagged = f"{registry}:{built.removeprefix('sha256:')[:12]}"
        self.site.tools.run(self._program, "tag", f"posttrain-{kind}:latest", tagged)
        if self._program == "podman":
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "digest"
                self.site.tools.run("podman", "push", "--digestfile", str(file), tagged, seconds=LONG_SECONDS)
                digest = file.read_text().strip()
        else:
            said = self.site.tools.said("docker", "push", tagged, seconds=LONG_SECONDS)
            digest = "".join(_DIGEST.findall(said)[-1:])
        if not _DIGEST.fullmatch(digest):
            raise StepFailed(f"{self._program} push {tagged} told no digest")
        return f"{registry}@{digest}"

    def _log_in(self, host: str) -> None:
        if self.site.settings.cloud == "aws":
            words: tuple[str, ...] = ("aws", "ecr", "get-login-password", "--region", self.site.outputs["region"])
            user = "AWS"
        else:
            words, user = ("gcloud", "auth", "print-access-token"), "oauth2accesstoken"
        token = self.site.tools.said(*words)
        self.site.tools.run(self._program, "login", "--username", user, "--password-stdin", host, given=token)

    @property
    def _program(self) -> str:
        return next((name for name in ("podman", "docker") if self.site.tools.find(name)), "podman")
