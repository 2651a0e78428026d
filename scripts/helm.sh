#!/usr/bin/env bash
# Builds the real helm from its Go module for the tests of the chart, and prints its path. The first run takes about five minutes; later
# runs only print the path. Needs Go. The folder is ~/.cache/firezone-reconcile/helm-VERSION.
set -euo pipefail
version=3.18.6
folder=${XDG_CACHE_HOME:-$HOME/.cache}/firezone-reconcile/helm-$version
if [ ! -x "$folder/helm" ]; then
  command -v go >/dev/null || { echo 'helm.sh: go is not installed' >&2; exit 1; }
  GOBIN=$folder go install "helm.sh/helm/v3/cmd/helm@v$version" >&2
fi
echo "$folder/helm"
