#!/usr/bin/env bash
# Configures a build directory if it is new, then builds the program in it.
# Usage: tools/build.sh DIR [cmake options for a new directory]
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$1
shift
source tools/common.sh

if [ ! -f "$directory/build.ninja" ]; then
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLA_BUILD_TESTS=OFF "$@" >&2
fi
cmake --build "$directory" --target mla -j "$(job_count)" >&2
