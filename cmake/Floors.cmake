# One target per floor of the house.
#
# neurim_sources(RESULT FOLDER…)
#   lists the sources of the folders below the current one.
function(neurim_sources result)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# NEURIM_SECTIONS: a section for each function, so that the linker leaves out of the runtime what it does not call.
set(NEURIM_SECTIONS -ffunction-sections -fdata-sections)

# neurim_floor(NAME [COLD] [JOINED] [ONE_THREAD] [FOLDERS folder…] [SOURCES file…] [DEPENDS floor…] [LINK library…])
#   makes the static library neurim_NAME of all sources in the folders (default: NAME below the current one) and these. COLD: see
#   NEURIM_COLD. JOINED: see neurim_joined. ONE_THREAD: all of it runs on the thread that asks for it, so that the thread sanitizer
#   need not look.
function(neurim_floor name)
  cmake_parse_arguments(arg "COLD;JOINED;ONE_THREAD" "" "FOLDERS;DEPENDS;LINK;SOURCES" ${ARGN})
  if(NOT arg_FOLDERS)
    set(arg_FOLDERS ${name})
  endif()
  neurim_sources(sources ${arg_FOLDERS})
  add_library(neurim_${name} STATIC ${sources} ${arg_SOURCES})
  target_include_directories(neurim_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_options(neurim_${name} PRIVATE ${NEURIM_SECTIONS} -ffp-contract=off -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                         $<$<BOOL:${arg_COLD}>:${NEURIM_COLD}>
                         $<$<BOOL:${arg_ONE_THREAD}>:-fno-sanitize=thread>)
  neurim_precompiled(neurim_${name} floors${arg_COLD}${arg_ONE_THREAD})
  if(arg_JOINED)
    neurim_joined(neurim_${name})
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND neurim_)
  target_link_libraries(neurim_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY NEURIM_FLOORS neurim_${name})
endfunction()

# neurim_registrar(FLOOR FUNCTION PREFIX FOLDER…)
#   generates `void FUNCTION()` in namespace neurim, which calls PREFIX<stem>() for every source of the folders.
#   Static initialisers would drop out of static archives; this call does not. EXCEPT stem…: leaves these out.
function(neurim_registrar floor function prefix)
  cmake_parse_arguments(arg "" "" "EXCEPT" ${ARGN})
  neurim_sources(sources ${arg_UNPARSED_ARGUMENTS})
  set(declarations "")
  set(calls "")
  foreach(source ${sources})
    cmake_path(GET source STEM stem)
    if(stem IN_LIST arg_EXCEPT)
      continue()
    endif()
    string(APPEND declarations "void ${prefix}${stem}();\n")
    string(APPEND calls "  ${prefix}${stem}();\n")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT
    "// Generated from the list of files.\nnamespace neurim {\n${declarations}\nvoid ${function}() {\n${calls}}\n\n}  // namespace neurim\n")
  target_sources(neurim_${floor} PRIVATE ${generated})
endfunction()

# neurim_isa_sources(FLOOR FOLDER)
#   compiles every source of the folder once for each instruction set, with NEURIM_ISA naming its namespace; with NEURIM_ONLY_ISA
#   for that one alone ("native": the best that this machine has), as the sanitizers run no other. OPTIONS: further ones.
set(NEURIM_ONLY_ISA "" CACHE STRING "The one instruction set that kernels are compiled for: portable, avx2, avx512, native; empty: all")
if(NEURIM_ONLY_ISA STREQUAL "native")
  file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
  if(cpu_flags MATCHES " avx512f " AND cpu_flags MATCHES " avx512bw " AND cpu_flags MATCHES " avx512vl " AND cpu_flags MATCHES " avx512dq ")
    set(NEURIM_ONLY_ISA avx512)
  elseif(cpu_flags MATCHES " avx2 " AND cpu_flags MATCHES " fma ")
    set(NEURIM_ONLY_ISA avx2)
  else()
    set(NEURIM_ONLY_ISA portable)
  endif()
endif()
if(NEURIM_ONLY_ISA)
  add_compile_definitions(NEURIM_ONLY_ISA=${NEURIM_ONLY_ISA})
  set(NEURIM_ISAS ${NEURIM_ONLY_ISA})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(NEURIM_ISAS portable avx2 avx512)
else()
  add_compile_definitions(NEURIM_ONLY_ISA=portable)
  set(NEURIM_ISAS portable)
endif()
function(neurim_isa_sources floor folder)
  cmake_parse_arguments(arg "" "" "OPTIONS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  set(flags_portable "")
  set(flags_avx2 -march=x86-64-v3)
  set(flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  foreach(isa ${NEURIM_ISAS})
    add_library(neurim_${floor}_${isa} OBJECT ${sources})
    target_include_directories(neurim_${floor}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(neurim_${floor}_${isa} PRIVATE NEURIM_ISA=${isa})
    target_compile_options(neurim_${floor}_${isa} PRIVATE -Wall -Wextra -Wno-psabi -ffp-contract=fast -fno-math-errno -fno-trapping-math
                           ${flags_${isa}} ${arg_OPTIONS})
    target_sources(neurim_${floor} PRIVATE $<TARGET_OBJECTS:neurim_${floor}_${isa}>)
  endforeach()
endfunction()
