# Cross-compiles for aarch64 with Debian's g++-aarch64-linux-gnu; ctest runs the programs in
# qemu-user. The compiler's packages bring the C and C++ libraries; the others (Highway, fmt, gtest)
# come from MLA_SYSROOT, which tools/fetch_sysroot.sh fills with Debian's arm64 packages.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(MLA_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build-neon/sysroot" CACHE PATH "arm64 packages, unpacked")
set(MLA_QEMU_CPU "max" CACHE STRING "Processor that qemu-user plays (qemu-aarch64 -cpu help)")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MLA_SYSROOT)
get_filename_component(sysroot "${MLA_SYSROOT}" ABSOLUTE)

set(CMAKE_FIND_ROOT_PATH ${sysroot} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${sysroot})

# -L: where the programs find their loader and libc; their rpath covers the rest.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${MLA_QEMU_CPU} -L /usr/aarch64-linux-gnu)
