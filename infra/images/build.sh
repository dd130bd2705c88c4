#!/usr/bin/env bash
# Build an image of the stages, or Airflow's own, with buildah, or docker where there is no buildah:
#   infra/images/build.sh cpu|gpu|airflow
# BASE_IMAGE (by digest, or of this machine), EXTRA_INDEX_URL, TAG and, where there is no git checkout, REVISION may be
# set. PIP_CONFIG_FILE, PIP_CERT and PIP_FIND_LINKS of the shell are passed on to the build only.
set -euo pipefail
cd "$(dirname "$0")/../.."
kind=${1:-}
lock=stages.lock index= packages= trim= file=infra/images/Dockerfile
case $kind in
  cpu) index=${EXTRA_INDEX_URL-https://download.pytorch.org/whl/cpu} trim=yes ;;
  gpu) lock=gpu.lock index=${EXTRA_INDEX_URL-} packages="gcc libc6-dev" PIP_FIND_LINKS= ;; # the default index is CUDA's
  airflow) lock=airflow-cluster.lock file=infra/airflow/Dockerfile ;;
  *) echo "usage: infra/images/build.sh cpu|gpu|airflow" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
revision=${REVISION:-$(git rev-parse HEAD)}
dirty=$(test -n "${REVISION:-}" || test -z "$(git status --porcelain --untracked-files=no)" && echo false || echo true)
lock_digest=$(sha256sum "infra/requirements/$lock" | cut -d' ' -f1)
version=$($python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')

arguments=(
  --file "$file" --tag "${TAG:-posttrain-$kind:latest}"
  --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
  --build-arg "CODE={\"version\": \"$revision\", \"dirty\": $dirty, \"lock\": \"$lock_digest\"}"
)
[ "$kind" = airflow ] || arguments+=(
  --build-arg "TITLE=posttrain-$kind" --build-arg "REQUIREMENTS=$lock" --build-arg "RUN_PACKAGES=$packages"
  --build-arg "TRIM=$trim"
  --build-arg "BUILT=$(date +%s%N)"
)
[ -z "$index" ] || arguments+=(--build-arg "EXTRA_INDEX_URL=$index")
case ${BASE_IMAGE:-} in
  "" | localhost/* | *@sha256:*) ;;
  *)
    echo "BASE_IMAGE=$BASE_IMAGE: a tag may mean another image tomorrow; expected name@sha256:<digest>, or localhost/name" >&2
    exit 2
    ;;
esac
[ -z "${BASE_IMAGE:-}" ] || arguments+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$python - "${PIP_CONFIG_FILE:-/etc/pip.conf}" >"$work/pip.conf" <<'PIP'
import configparser, os, sys
settings = configparser.ConfigParser()
settings.read(sys.argv[1])
if os.environ.get("PIP_FIND_LINKS"):
    settings.read_dict({"global": {**dict(settings["global"] if "global" in settings else {}), "find-links": os.environ["PIP_FIND_LINKS"]}})
if "global" in settings:
    settings.remove_option("global", "cert")  # the authority comes as a secret of its own
settings.write(sys.stdout)
PIP
arguments+=(--secret "id=pip_conf,src=$work/pip.conf")
[ ! -s "${PIP_CERT:-}" ] || arguments+=(--secret "id=ca_bundle,src=$PIP_CERT")

if command -v buildah >/dev/null; then
  # chroot isolation needs no daemon and no privileges beyond those of the caller
  [ ! -d "${PIP_FIND_LINKS:-}" ] || arguments+=(--volume "$PIP_FIND_LINKS:$PIP_FIND_LINKS:ro")
  buildah build --isolation chroot --network host --layers "${arguments[@]}" .
else
  docker build "${arguments[@]}" .
fi
