#!/usr/bin/env bash
# Fails if clang-format would change any C++ file. `make format` repairs it.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find include src apps tests fuzz bench examples \( -name '*.h' -o -name '*.cc' \) \
  2>/dev/null | sort)
clang-format --dry-run --Werror "${files[@]}"
echo "clang-format: ${#files[@]} files"
