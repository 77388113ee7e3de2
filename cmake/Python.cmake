# The Python package: build/…/python/neurim, with the extension module neurim._core. Built for the Python of .venv, where that has
# nanobind, so that the tests can import it; NEURIM_WHEEL: as a part of a wheel, by `pip install .`, for the Python that builds it.
option(NEURIM_WHEEL "Build what a wheel has in it" OFF)
if(NEURIM_WHEEL)
  set(python ${Python_EXECUTABLE})
else()
  set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  if(NOT EXISTS ${python} OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # the interpreter has no sanitizer
    return()
  endif()
endif()
execute_process(COMMAND ${python} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR RESULT_VARIABLE status
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT status EQUAL 0)
  message(STATUS "${python} has no nanobind: building without the Python package")
  return()
endif()
set(Python_EXECUTABLE ${python})
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
find_package(nanobind CONFIG REQUIRED)

set(package ${PROJECT_BINARY_DIR}/python/neurim)
file(GLOB bindings CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/neurim/python/*.cpp)
nanobind_add_module(neurim_python STABLE_ABI NB_STATIC ${bindings})
target_link_libraries(neurim_python PRIVATE neurim)
set_target_properties(neurim_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${package} INSTALL_RPATH "$ORIGIN")

if(NEURIM_WHEEL)
  # Where pip puts oneDNN's wheel: lib beside the packages of this or any Python, in virtual, user and system installs.
  get_target_property(soversion neurim SOVERSION)
  set_target_properties(neurim PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../.." VERSION ${soversion})  # one file: wheels have no links
  foreach(minor RANGE ${Python_VERSION_MINOR} 16)
    foreach(packages site-packages dist-packages)
      list(APPEND places "$ORIGIN/../lib/python3.${minor}/${packages}/neurim")
    endforeach()
  endforeach()
  set_target_properties(neurim_cli PROPERTIES INSTALL_RPATH "${places};$ORIGIN/../lib")
  install(TARGETS neurim_python LIBRARY DESTINATION neurim COMPONENT python)
  install(TARGETS neurim LIBRARY DESTINATION neurim COMPONENT python NAMELINK_SKIP)
  install(TARGETS neurim_cli RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  return()
endif()
# The package's files are links into the sources, so that an edit needs no build.
file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/neurim ${PROJECT_SOURCE_DIR}/python/neurim/*.py*)
file(MAKE_DIRECTORY ${package})
foreach(name ${files})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/neurim/${name} ${package}/${name} SYMBOLIC)
endforeach()
