#!/usr/bin/env bash
# Builds the Dockerfile for real, without a registry: a base image from debootstrap, Node and npm from this machine, buildah
# as the builder. Then runs the image as its own user with a read-only root. Needs root, debootstrap and buildah.
#   scripts/image.sh build TARGET     builds the target `runtime` or `enforcement`
#   scripts/image.sh run TARGET ARG…  runs the image's entry point with these arguments: a process namespace of its own, a
#                                     read-only root, the image's user, no capability (NET_ADMIN for `enforcement`);
#                                     RECONCILE_IMAGE_MOUNTS="/host/path:/path …" adds read-only folders and files
# State is kept in $RECONCILE_IMAGE_DIR (default: a folder below the system's temporary one).
set -euo pipefail
cd "$(dirname "$0")/.."
state=${RECONCILE_IMAGE_DIR:-${TMPDIR:-/tmp}/firezone-reconcile-image}
# Where this machine takes its own packages from.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -n 1)}
mkdir -p "$state"
bud() { buildah --storage-driver vfs --root "$state/store" --runroot "$state/run" "$@"; }

base_image() {
  bud inspect --type image local/debian >/dev/null 2>&1 && return
  [ -e "$state/base/usr/bin/apt-get" ] || debootstrap --variant=minbase bookworm "$state/base" "$mirror" >"$state/debootstrap.log"
  rm -rf "$state/base/var/cache/apt/archives/"*.deb
  local container
  container=$(bud from scratch)
  bud copy -q "$container" "$state/base" / >/dev/null
  bud commit -q --rm "$container" local/debian >/dev/null
}

node_image() {
  bud inspect --type image local/node >/dev/null 2>&1 && return
  local container npm
  npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
  container=$(bud from local/debian)
  bud copy -q "$container" "$(readlink -f "$(command -v node)")" /usr/local/bin/node >/dev/null
  bud copy -q "$container" "$npm" /usr/local/lib/node_modules/npm >/dev/null
  bud run --isolation chroot "$container" -- ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
  # A network with an authority of its own: npm inside the build trusts what this machine trusts.
  if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
    bud copy -q "$container" "$NODE_EXTRA_CA_CERTS" /etc/extra-authorities.pem >/dev/null
    bud config --env NODE_EXTRA_CA_CERTS=/etc/extra-authorities.pem "$container"
  fi
  bud commit -q --rm "$container" local/node >/dev/null
}

case ${1:-} in
  build)
    base_image
    node_image
    bud build --isolation chroot --target "${2:?target}" --tag "local/reconcile-$2" \
      --build-arg NODE=local/node --build-arg BASE=local/debian \
      --build-arg VERSION="$(node -p 'require("./package.json").version')" .
    ;;
  run)
    target=${2:?target}
    shift 2
    container=$(bud from "local/reconcile-$target")
    trap 'bud umount "$container" >/dev/null; bud rm "$container" >/dev/null' EXIT
    user=$(bud inspect --type image --format '{{.OCIv1.Config.User}}' "local/reconcile-$target")
    root=$(bud mount "$container")
    capabilities=-all
    [ "$target" = enforcement ] && capabilities=-all,+net_admin
    unshare --mount --pid --fork --kill-child bash -s "$root" "${user:-0}" "$capabilities" "$@" 3<&0 <<'INSIDE'
set -euo pipefail
root=$1 uid=${2%%:*} capabilities=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o "mode=0700,uid=$uid,gid=$uid" tmpfs "$root/var/lib/reconcile"
mount --bind /dev "$root/dev"
mkdir -p "$root/mounts"
for pair in ${RECONCILE_IMAGE_MOUNTS:-}; do
  from=${pair%%:*} to=$root${pair#*:}
  if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "$(dirname "$to")" && touch "$to"; fi
  mount --bind -o ro "$from" "$to"
done
mount -o remount,ro,bind "$root"
exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/var/lib/reconcile NODE_ENV=production \
  chroot "$root" setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps "$capabilities" \
  --bounding-set "$capabilities" --no-new-privs /usr/bin/tini -- /usr/local/bin/reconcile "$@" <&3
INSIDE
    ;;
  *)
    sed -n 's/^# \{0,1\}//p' "$0" | sed -n 2,9p
    exit 2
    ;;
esac
