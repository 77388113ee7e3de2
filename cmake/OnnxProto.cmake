# ONNX's own message classes as the static library neurim_onnx_proto: `#include "onnx/onnx-data.pb.h"`, which includes
# those of models (onnx-ml.pb.h).
#
# The definitions are text files in the onnx wheel; Debian's protoc makes the classes, on protobuf's lite runtime
# (no descriptors, no reflection: smaller and no clash with another protobuf in the process).
find_package(Protobuf REQUIRED)
include(Wheel)
set(onnx ${PROJECT_SOURCE_DIR}/.cache/onnx-1.23.2)
neurim_wheel(onnx==1.23.2
  SHA256 c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348
  PLATFORM manylinux_2_28_x86_64
  INTO ${onnx}
  FILES onnx/onnx-ml.proto onnx/onnx-ml.proto onnx/onnx-data.proto onnx/onnx-data.proto)

set(generated ${PROJECT_BINARY_DIR}/onnx_proto)
file(MAKE_DIRECTORY ${generated})
foreach(name onnx-ml onnx-data)
  add_custom_command(
    OUTPUT ${generated}/onnx/${name}.pb.cc ${generated}/onnx/${name}.pb.h
    COMMAND protobuf::protoc --proto_path=${onnx} --cpp_out=lite:${generated} onnx/${name}.proto
    DEPENDS ${onnx}/onnx/onnx-ml.proto ${onnx}/onnx/onnx-data.proto
    COMMENT "Generating ONNX's message classes (${name})")
  list(APPEND sources ${generated}/onnx/${name}.pb.cc ${generated}/onnx/${name}.pb.h)
endforeach()
add_library(neurim_onnx_proto STATIC ${sources})
target_include_directories(neurim_onnx_proto SYSTEM PUBLIC ${generated})
target_link_libraries(neurim_onnx_proto PUBLIC protobuf::libprotobuf-lite)
set_target_properties(neurim_onnx_proto PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
