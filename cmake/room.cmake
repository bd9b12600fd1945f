# add_room(NAME SOURCES ... DEPS ... LIBS ...): one static library per room of src/, alias mla::NAME.
#   DEPS  rooms that this one may call (tools/check_layers.py holds the same table for includes)
#   LIBS  external targets that stay an implementation detail of the room
# Per-target flags only: nothing here leaks into another directory.
set(MLA_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual
  # GCC 12 warns about its own std::string (bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

add_library(mla_flags INTERFACE)
target_compile_options(mla_flags INTERFACE ${MLA_WARNINGS} $<$<BOOL:${MLA_WERROR}>:-Werror>)
if(MLA_SANITIZE)
  target_compile_options(mla_flags INTERFACE -fsanitize=${MLA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mla_flags INTERFACE -fsanitize=${MLA_SANITIZE})
endif()
if(MLA_BUILD_FUZZ)
  target_compile_options(mla_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(mla_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(add_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(mla_${name} STATIC ${ROOM_SOURCES})
  add_library(mla::${name} ALIAS mla_${name})
  target_include_directories(mla_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(dep ${ROOM_DEPS})
    target_link_libraries(mla_${name} PUBLIC mla_${dep})
  endforeach()
  target_link_libraries(mla_${name} PRIVATE $<BUILD_INTERFACE:mla_flags> ${ROOM_LIBS})
endfunction()

# add_room_test(ROOM NAME SOURCES ...): a GoogleTest program that links its own room only, so that an
# upward call fails at link. Registered as one ctest per program. Programs of rooms that run in
# parallel also carry the label "threaded" and hang on the target threaded_tests.
set(MLA_THREADED_ROOMS parallel ops attention layers model engine)
if(MLA_BUILD_TESTS)
  add_custom_target(threaded_tests)
endif()
function(add_room_test room name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE mla_${room} mla_flags GTest::gtest GTest::gtest_main ${TEST_LIBS})
  target_compile_definitions(${name} PRIVATE MLA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    MLA_MODELS="${PROJECT_SOURCE_DIR}/models" $<$<BOOL:${CMAKE_CROSSCOMPILING_EMULATOR}>:MLA_EMULATED>)
  set(labels ${room} ${TEST_LABELS})
  if(room IN_LIST MLA_THREADED_ROOMS)
    list(APPEND labels threaded)
    add_dependencies(threaded_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${labels}")
endfunction()

# add_isa_tests(PROGRAM): registers a program of add_room_test once more per instruction set, as
# PROGRAM.ISA with MLA_ISA set. Its main() forces the ISA; on a machine without it the test is
# reported as skipped, with a message. The run without MLA_ISA has the label "default_isa". For rooms
# that see kernels.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Highway's portable target is called scalar where it takes the compiler's vector types to be
  # broken (GCC before 12.3), else emu128.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.3)
    set(MLA_TEST_ISAS scalar)
  else()
    set(MLA_TEST_ISAS emu128)
  endif()
  list(APPEND MLA_TEST_ISAS ssse3 sse4 avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(MLA_TEST_ISAS neon)
endif()
function(add_isa_tests program)
  target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/isa_main.cc)
  target_link_libraries(${program} PRIVATE mla_kernels)
  get_test_property(${program} LABELS labels)
  set_tests_properties(${program} PROPERTIES LABELS "${labels};default_isa")
  foreach(isa ${MLA_TEST_ISAS})
    add_test(NAME ${program}.${isa} COMMAND ${program})
    set_tests_properties(${program}.${isa} PROPERTIES TIMEOUT 600 LABELS "${labels};isa"
      ENVIRONMENT MLA_ISA=${isa} SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
