#!/usr/bin/env bash
# Builds the real kube-apiserver from its Go module for test/kubernetes, and prints the folder that holds it.
# The first run takes about five minutes and two gigabytes of module and build cache; later runs only print the folder.
# Needs Go; the tests need etcd beside it (Debian: etcd-server), kubectl and openssl. The folder is $RECONCILE_KUBERNETES_DIR, by default ~/.cache/firezone-reconcile/kubernetes-VERSION.
set -euo pipefail
version=1.32.13
folder=${RECONCILE_KUBERNETES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/firezone-reconcile/kubernetes-$version}
if [ -x "$folder/kube-apiserver" ]; then
  echo "$folder"
  exit 0
fi
command -v go >/dev/null || { echo 'kube-apiserver.sh: go is not installed' >&2; exit 1; }
mkdir -p "$folder/source"
cd "$folder/source"

cat >main.go <<'GO'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
GO

# The module of Kubernetes maps its staging modules to folders that the module proxy does not serve: map them to their releases.
cat >go.mod <<MOD
module example.invalid/kube-apiserver

go 1.23.0

godebug default=go1.23

require k8s.io/kubernetes v$version
MOD
go mod download "k8s.io/kubernetes@v$version" >&2
staging=$(sed -nE 's/^\t(k8s\.io\/[a-z-]+) => \.\/staging.*/\1/p' "$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/v$version.mod")
for module in $staging; do
  echo "replace $module => $module v0.${version#1.}" >>go.mod
done

info=k8s.io/component-base/version
GOFLAGS=-mod=mod go build -trimpath -o "$folder/kube-apiserver.new" \
  -ldflags "-s -w -X $info.gitVersion=v$version -X $info.gitMajor=1 -X $info.gitMinor=32" . >&2
mv "$folder/kube-apiserver.new" "$folder/kube-apiserver"
echo "$folder"
