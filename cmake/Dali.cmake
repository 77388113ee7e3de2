# The plug-in libneurim_dali.so, where NEURIM_DALI names the folder nvidia/dali of a Python that has nvidia-dali (scripts/dali
# finds it). Nothing else needs DALI; the library finds the plug-in at run time (neurim/data/open_loader.h).
set(NEURIM_DALI "" CACHE PATH "The folder nvidia/dali of an installed wheel nvidia-dali; empty: no loader=dali")
if(NOT NEURIM_DALI)
  return()
endif()
if(NOT EXISTS ${NEURIM_DALI}/include/dali/dali.h)
  message(FATAL_ERROR "NEURIM_DALI is ${NEURIM_DALI}, which has no include/dali/dali.h: name the folder nvidia/dali of a wheel "
                      "nvidia-dali of version 2.4 or later.")
endif()
add_library(neurim_dali MODULE ${PROJECT_SOURCE_DIR}/neurim/data/dali/loader.cpp ${PROJECT_SOURCE_DIR}/neurim/data/dali/pipeline.cpp)
target_include_directories(neurim_dali SYSTEM PRIVATE ${NEURIM_DALI}/include ${PROJECT_SOURCE_DIR}/neurim/data/dali/cuda_types)
target_compile_definitions(neurim_dali PRIVATE NEURIM_VERSION="${PROJECT_VERSION}")
target_compile_options(neurim_dali PRIVATE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
# DALI's operators register themselves when their library is loaded; no symbol of it is used.
target_link_libraries(neurim_dali PRIVATE neurim ${NEURIM_DALI}/libdali.so -Wl,--no-as-needed ${NEURIM_DALI}/libdali_operators.so
                      -Wl,--as-needed -Wl,--allow-shlib-undefined)
set_target_properties(neurim_dali PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
  INSTALL_RPATH "$ORIGIN;${NEURIM_DALI}")
install(TARGETS neurim_dali LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
