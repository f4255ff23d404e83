# What `cmake --install` copies. The tree may be moved afterwards: the pkg-config file and the CMake
# package find their prefix from their own place, the tool finds the library beside itself.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/npuseg")
file(RELATIVE_PATH NPUSEG_PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" NPUSEG_PC_PREFIX "${NPUSEG_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/pkgconfig/npuseg.pc.in" "${PROJECT_BINARY_DIR}/npuseg.pc"
               @ONLY)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/npusegConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/npusegConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/npusegConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)

install(TARGETS npuseg EXPORT npusegTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT npusegTargets NAMESPACE npuseg:: DESTINATION "${package_folder}")
install(FILES "${PROJECT_SOURCE_DIR}/include/npuseg.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/npusegConfig.cmake"
              "${PROJECT_BINARY_DIR}/npusegConfigVersion.cmake"
        DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/npuseg.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/docs/npuseg.3" DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET npuseg-cli)
  file(RELATIVE_PATH library_from_tool "/prefix/${CMAKE_INSTALL_BINDIR}"
       "/prefix/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(npuseg-cli PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_tool}")
  install(TARGETS npuseg-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(FILES "${PROJECT_SOURCE_DIR}/docs/npuseg-cli.1"
          DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()
