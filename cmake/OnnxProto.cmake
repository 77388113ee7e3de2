# ONNX's own message classes as the static library neurim_onnx_proto: `#include "onnx/onnx.pb.h"`.
#
# The definition is the text file in the onnx wheel; Debian's protoc makes the classes, on protobuf's lite runtime
# (no descriptors, no reflection: smaller and no clash with another protobuf in the process).
find_package(Protobuf REQUIRED)
include(Wheel)
set(onnx ${PROJECT_SOURCE_DIR}/.cache/onnx-1.23.2)
neurim_wheel(onnx==1.23.2
  SHA256 c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348
  PLATFORM manylinux_2_28_x86_64
  INTO ${onnx}
  FILES onnx/onnx.proto onnx/onnx.proto)

set(generated ${PROJECT_BINARY_DIR}/onnx_proto)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/onnx/onnx.pb.cc ${generated}/onnx/onnx.pb.h
  COMMAND protobuf::protoc --proto_path=${onnx} --cpp_out=lite:${generated} onnx/onnx.proto
  DEPENDS ${onnx}/onnx/onnx.proto
  COMMENT "Generating ONNX's message classes")
add_library(neurim_onnx_proto STATIC ${generated}/onnx/onnx.pb.cc ${generated}/onnx/onnx.pb.h)
target_include_directories(neurim_onnx_proto SYSTEM PUBLIC ${generated})
target_link_libraries(neurim_onnx_proto PUBLIC protobuf::libprotobuf-lite)
set_target_properties(neurim_onnx_proto PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
