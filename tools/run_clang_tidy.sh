#!/usr/bin/env bash
# clang-tidy over the sources of src/ and apps/, or over the files named.
# Usage: tools/run_clang_tidy.sh BUILD_DIR [FILE ...]; BUILD_DIR holds compile_commands.json.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
source tools/common.sh
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find src apps -name '*.cc' | sort)
fi
# GCC's own warning options and pragmas mean nothing to clang. Kernels are one source for every
# instruction set: reading it for one is enough.
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(job_count)" clang-tidy -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas \
  --extra-arg=-DHWY_COMPILE_ONLY_STATIC
echo "clang-tidy: ${#files[@]} files"
