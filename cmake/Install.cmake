# `cmake --install build/release --prefix DIR`: the command, the library, its headers and oneDNN; afterwards
# find_package(neurim) offers neurim::neurim to other projects.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS neurim EXPORT neurim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(neurim PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS neurim_rt EXPORT neurim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NEURIM_RUNTIME_STATIC)
  install(FILES ${PROJECT_BINARY_DIR}/libneurim_rt.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET neurim_cli)
  install(TARGETS neurim_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(neurim_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")
endif()

# The kernels, the command and DALI's plug-in are no interface, but for how reference kernels are written.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/neurim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN backend EXCLUDE PATTERN cli EXCLUDE PATTERN dali EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/neurim/backend/reference/view.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neurim/backend/reference)
install(FILES ${PROJECT_BINARY_DIR}/generated/neurim/neurim.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neurim)
install(FILES ${PROJECT_BINARY_DIR}/generated/neurim/model/abi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neurim/model)

if(NEURIM_ONEDNN)
  install(FILES ${NEURIM_ONEDNN}/lib/libdnnl.so.3 DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${NEURIM_ONEDNN}/doc/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/onednn)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/neurim)
install(EXPORT neurim NAMESPACE neurim:: FILE neurim-config.cmake DESTINATION ${package})
write_basic_package_version_file(neurim-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/neurim-config-version.cmake DESTINATION ${package})
