# The generated header neurim/neurim.h, of the template and all headers of ops/, nn/ and optim/ but those that begin with a comment
# that says "Internal: not part of neurim.h."
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/neurim/ops/*.h ${PROJECT_SOURCE_DIR}/neurim/ops/losses/*.h
  ${PROJECT_SOURCE_DIR}/neurim/nn/*.h ${PROJECT_SOURCE_DIR}/neurim/optim/*.h)
set(NEURIM_HEADERS "")
foreach(header ${headers})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} internal REGEX "^// Internal: not part of neurim.h" LIMIT_COUNT 1)
  if(NOT internal)
    string(APPEND NEURIM_HEADERS "#include \"${header}\"\n")
  endif()
endforeach()
string(STRIP "${NEURIM_HEADERS}" NEURIM_HEADERS)
configure_file(${PROJECT_SOURCE_DIR}/neurim/neurim.h.in ${PROJECT_BINARY_DIR}/generated/neurim/neurim.h @ONLY)
