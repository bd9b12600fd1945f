#!/usr/bin/env bash
# Unpacks Debian's arm64 packages that the preset neon links into DIR, unless they are there.
# Usage: tools/fetch_sysroot.sh [DIR] (build-neon/sysroot). Needs apt and the network, not root: apt
# works on lists of its own, so that the machine's architectures, lists and packages stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(libhwy-dev libhwy1 libfmt-dev libfmt9 libgtest-dev nlohmann-json3-dev)
directory=${1:-build-neon/sysroot}
stamp=$directory/packages
if [ "$(cat "$stamp" 2>/dev/null)" = "${packages[*]}" ]; then exit 0; fi

fail() {
  echo "fetch_sysroot.sh: $1" >&2
  exit 1
}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "needs apt-get and dpkg-deb"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
apt=(apt-get -q -o "Dir::State=$work" -o "Dir::State::lists=$work/lists"
  -o Dir::State::status=/dev/null -o "Dir::Cache=$work/cache" -o APT::Architecture=arm64
  -o APT::Architectures=arm64 -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)")
# A third party's list that has no arm64 is an error here and does not matter: the download decides.
"${apt[@]}" update </dev/null >"$work/update.log" 2>&1 || true
if ! (cd "$work/debs" && "${apt[@]}" download "${packages[@]}") </dev/null >"$work/log" 2>&1; then
  cat "$work/update.log" "$work/log" >&2
  fail "no arm64 packages of ${packages[*]} from this machine's package sources"
fi
rm -rf "$directory"
mkdir -p "$directory"
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$directory"; done
echo "${packages[*]}" >"$stamp"
