# Fails unless PREFIX/include holds exactly the headers of SOURCE.
file(GLOB_RECURSE installed RELATIVE ${PREFIX}/include ${PREFIX}/include/*)
file(GLOB_RECURSE wanted RELATIVE ${SOURCE} ${SOURCE}/*.h)
list(SORT installed)
list(SORT wanted)
if(NOT installed STREQUAL wanted)
  message(FATAL_ERROR "installed headers: ${installed}\nexpected: ${wanted}")
endif()
