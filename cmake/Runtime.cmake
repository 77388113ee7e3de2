# The library `neurim_rt`: function files for programs in C, without training, the command and oneDNN. It is linked from the floors'
# archives, of which the linker takes what the interface reaches.
option(NEURIM_RUNTIME_STATIC "Make and install libneurim_rt.a too" OFF)
option(NEURIM_RUNTIME_IMAGES "Whether the runtime reads image files; without, it takes decoded pixels alone" ON)

add_library(neurim_runtime OBJECT runtime/neurim_rt.cpp)
target_compile_options(neurim_runtime PRIVATE -Wall -Wextra -Wshadow ${NEURIM_SECTIONS} -fvisibility=hidden)
target_include_directories(neurim_runtime PRIVATE ${PROJECT_SOURCE_DIR})
# Its kernels are compiled once more: they store f32 as it is, and are half as large so. Those of training are left out.
neurim_isa_sources(runtime backend/cpu/simd OPTIONS -DNEURIM_F32_STORAGE ${NEURIM_SECTIONS})
list(REMOVE_ITEM cpu_kernels backend/cpu/onednn)
neurim_registrar(runtime add_runtime_kernels cpu_ ${cpu_kernels}
  EXCEPT conv_direct_dgrad conv_direct_wgrad conv_tiles_wgrad cross_entropy gather_grad optimizer)
if(NOT NEURIM_RUNTIME_IMAGES)
  target_sources(neurim_runtime PRIVATE runtime/no_formats.cpp)  # which the linker takes instead of formats/formats.cpp
endif()
set(runtime_objects $<TARGET_OBJECTS:neurim_runtime>)
foreach(isa ${NEURIM_ISAS})
  list(APPEND runtime_objects $<TARGET_OBJECTS:neurim_runtime_${isa}>)
endforeach()
set(runtime_floors neurim_function neurim_compile neurim_data neurim_sources neurim_cpu neurim_reference)

add_library(neurim_rt SHARED ${runtime_objects})
add_library(neurim::neurim_rt ALIAS neurim_rt)
target_link_libraries(neurim_rt PRIVATE ${runtime_floors})
target_include_directories(neurim_rt INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
# The names that the header declares are those that it exports.
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/runtime/neurim_rt.h header)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/neurim_rt.h)
string(REGEX MATCHALL "NEURIM_RT_API [a-z0-9_ *]+neurim_[a-z_]+\\(" declared "${header}")
list(TRANSFORM declared REPLACE ".*(neurim_[a-z_]+)\\(" "\\1")
list(JOIN declared "; " exported)
set(names ${CMAKE_CURRENT_BINARY_DIR}/neurim_rt.map)
file(CONFIGURE OUTPUT ${names} CONTENT "{ global: ${exported}; local: *; };\n")
# nodelete: the threads of the pool run its code until the process ends.
target_link_options(neurim_rt PRIVATE LINKER:--gc-sections,--as-needed,--no-undefined,-z,nodelete,--version-script=${names})
set_target_properties(neurim_rt PROPERTIES
  LINKER_LANGUAGE CXX VERSION 1 SOVERSION 1 BUILD_WITH_INSTALL_RPATH ON LINK_DEPENDS ${names} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# libneurim_rt.a: all that the interface reaches as one object, whose other names are then made local.
set(archive ${PROJECT_BINARY_DIR}/libneurim_rt.a)
set(whole ${CMAKE_CURRENT_BINARY_DIR}/neurim_rt.o)
list(TRANSFORM declared PREPEND -Wl,-u, OUTPUT_VARIABLE roots)
list(TRANSFORM declared PREPEND --keep-global-symbol= OUTPUT_VARIABLE kept)
set(floors base compile core cpu data function graph hardware ops reference sources weights)
list(TRANSFORM floors PREPEND neurim_)
list(TRANSFORM floors REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
add_custom_command(OUTPUT ${archive}
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--gc-sections ${roots} ${runtime_objects}
          -Wl,--start-group ${archives} -Wl,--end-group -o ${whole}
  COMMAND ${CMAKE_OBJCOPY} ${kept} ${whole}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} rcs ${archive} ${whole}
  DEPENDS ${runtime_objects} ${floors}
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(neurim_rt_static DEPENDS ${archive})
if(NEURIM_RUNTIME_STATIC)
  set_target_properties(neurim_rt_static PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
