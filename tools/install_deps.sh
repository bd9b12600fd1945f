#!/usr/bin/env bash
# Installs the Debian packages that are missing, and nothing when none is.
# Usage: tools/install_deps.sh [build] [test] [neon] [bench]. This is the one list of packages; the
# README refers to it.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config
  libhwy-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libfmt-dev
)
test_packages=(
  libgtest-dev python3 valgrind
  clang clang-format clang-tidy libclang-rt-14-dev
)
# The libraries for aarch64 are not installed but unpacked: tools/fetch_sysroot.sh. On aarch64 itself
# every test runs on NEON anyway.
neon_packages=()
if [ "$(uname -m)" = x86_64 ]; then neon_packages=(g++-aarch64-linux-gnu qemu-user); fi

bench_packages=(libbenchmark-dev)

wanted=()
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=("${build_packages[@]}") ;;
    test) wanted+=("${test_packages[@]}") ;;
    neon) wanted+=("${neon_packages[@]}") ;;
    bench) wanted+=("${bench_packages[@]}") ;;
    *) echo "install_deps.sh: unknown group '$group' (build, test, neon, bench)" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: not a Debian system; these packages' contents must be there: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null || true)
  grep -qx installed <<<"$status" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

command_line="apt-get install -y --no-install-recommends ${missing[*]}"
elevate=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages, and neither root nor sudo to install them. As root, run:" >&2
    echo "  apt-get update && $command_line" >&2
    exit 1
  fi
  elevate=(sudo)
fi

echo "Installing: ${missing[*]}" >&2
apt=("${elevate[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
install() { "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >&2; }
# The package index of a fresh image is empty, and an old one may name files that are gone.
if ! apt-get -s -q install --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
  "${apt[@]}" update </dev/null >&2 || true
fi
install || { "${apt[@]}" update </dev/null >&2 && install; } || {
  echo "Installing packages failed. Repair apt-get, or install by hand:" >&2
  echo "  apt-get update && $command_line" >&2
  exit 1
}
