# Installs the library, its headers and the program; exports mla::mla for find_package(mla).
include(CMakePackageConfigHelpers)

# The rooms behind include/mla. cli and server belong to the program, not to the library.
set(MLA_LIBRARY_ROOMS base tensor parallel comm io tokenizer kernels ops attention layers model engine)

# The one target that applications link: the public headers and everything behind them.
add_library(mla_library INTERFACE)
add_library(mla::mla ALIAS mla_library)
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/mla/*.h)
target_sources(mla_library INTERFACE FILE_SET HEADERS
  BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${public_headers})
target_compile_features(mla_library INTERFACE cxx_std_20)
target_link_libraries(mla_library INTERFACE mla_engine)
set_target_properties(mla_library PROPERTIES EXPORT_NAME mla)

foreach(room ${MLA_LIBRARY_ROOMS})
  if(TARGET mla_${room})
    set_target_properties(mla_${room} PROPERTIES EXPORT_NAME ${room})
    install(TARGETS mla_${room} EXPORT mlaTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(TARGETS mla_library EXPORT mlaTargets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mla)
install(EXPORT mlaTargets NAMESPACE mla:: DESTINATION ${config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mlaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mlaConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mlaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mlaConfig.cmake ${PROJECT_BINARY_DIR}/mlaConfigVersion.cmake
  DESTINATION ${config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
