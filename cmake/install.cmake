# Installing: headers, both libraries, the command, a pkg-config file and a CMake package.
#
#   find_package(ingot) gives ingot::ingot (shared) and ingot::ingot_static
#   pkg-config --cflags --libs [--static] ingot

include(CMakePackageConfigHelpers)

set(IG_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ingot)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ingot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(TARGETS ingot ingot_static EXPORT ingotTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ingot_cli)
    install(TARGETS ingot_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT ingotTargets NAMESPACE ingot:: DESTINATION ${IG_PACKAGE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ingotConfig.cmake.in
    ${CMAKE_BINARY_DIR}/ingotConfig.cmake INSTALL_DESTINATION ${IG_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ingotConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ingotConfig.cmake
    ${CMAKE_BINARY_DIR}/ingotConfigVersion.cmake DESTINATION ${IG_PACKAGE_DIR})

# relative, so that `cmake --install --prefix` elsewhere stays right
file(RELATIVE_PATH IG_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" IG_PREFIX_FROM_PC "${IG_PREFIX_FROM_PC}")
set(IG_PC_HTTP)
if(IG_HAS_HTTP)
    set(IG_PC_HTTP " -lmicrohttpd")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/ingot.pc.in ${CMAKE_BINARY_DIR}/ingot.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ingot.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
