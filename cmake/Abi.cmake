# The generated header neurim/model/abi.h, NEURIM_ABI: one line that is another for every release and for every change of a
# header that plug-ins are made from.
set(NEURIM_ABI ${PROJECT_BINARY_DIR}/generated/neurim/model/abi.h)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/neurim/*.h)
list(FILTER headers EXCLUDE REGEX "/neurim/(backend|cli|data/dali)/")
list(APPEND headers ${PROJECT_SOURCE_DIR}/neurim/backend/reference/view.h)
add_custom_command(
  OUTPUT ${NEURIM_ABI}
  COMMAND ${CMAKE_COMMAND} -DVERSION=${PROJECT_VERSION} -DOUT=${NEURIM_ABI} "-DHEADERS=${headers}"
          -P ${PROJECT_SOURCE_DIR}/cmake/WriteAbi.cmake
  DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/WriteAbi.cmake
  VERBATIM
  COMMENT "Hashing the headers that plug-ins are made from")
