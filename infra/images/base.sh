#!/usr/bin/env bash
# Assemble a base image like python:3.11-slim from Debian packages and this machine's Python, for places where no
# registry can be reached. Needs root, debootstrap and podman; takes about two minutes. Elsewhere use the real one.
set -euo pipefail
name=${1:-localhost/python:3.11-slim-bookworm}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
python=$(python3 -c 'import sys; assert sys.version_info[:2] == (3, 11), "needs Python 3.11"; print(sys.base_prefix)')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

packages=ca-certificates,libssl3,libsqlite3-0,libffi8,zlib1g,libbz2-1.0,liblzma5,libreadline8,libncursesw6,libuuid1,libexpat1,libgomp1
debootstrap --force-check-gpg --variant=minbase --include=$packages bookworm "$root" "$mirror" >"$work/log" || { tail -20 "$work/log" >&2; exit 1; }
mkdir -p "$root/usr/local"
tar -C "$python" -cf - --exclude='*/site-packages/*' --exclude='*/test' --exclude=__pycache__ --exclude='*.a' --exclude=idlelib \
  bin/python3.11 bin/python3 bin/python lib/libpython3.11.so.1.0 lib/libpython3.so lib/python3.11 include | tar -C "$root/usr/local" -xf -
cp -a "$python"/lib/python3.11/site-packages/{pip,setuptools}* "$root/usr/local/lib/python3.11/site-packages/"
chroot "$root" ldconfig
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}
tar -C "$root" -c . | podman import --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'ENV LANG=C.UTF-8' - "$name"
