# The shared library `neurim`: all floors in one file. The command, the tests and the users' programs link this one.
get_property(floors GLOBAL PROPERTY NEURIM_FLOORS)
add_library(neurim SHARED)
add_library(neurim::neurim ALIAS neurim)
foreach(floor ${floors})
  target_sources(neurim PRIVATE $<TARGET_OBJECTS:${floor}>)
endforeach()
target_link_libraries(neurim PRIVATE ${floors})  # adds what the floors link; their own objects are all there already
target_compile_features(neurim INTERFACE cxx_std_20)
target_include_directories(neurim INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:include>)
set_target_properties(neurim PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
