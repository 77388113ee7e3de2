# Less to do for the compiler.
#
# NEURIM_COLD: the options of what is not hot, because the work on tensors is done elsewhere. -O1 builds it in three quarters of
# the time of -O3, and under the sanitizers -O0 in two thirds of the time of -O1.
set(NEURIM_COLD $<$<CONFIG:Release>:-O1>)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=(address|thread)")
  set(NEURIM_COLD -O0)
endif()

# Less to parse. The preset dev does without, so that a missing #include shows.
#
# neurim_precompiled(TARGET OWNER)
#   has TARGET use what the first target called with this OWNER has precompiled: all of one OWNER are compiled with the same
#   options. These are the headers of the standard library that most sources read.
set(NEURIM_PRECOMPILED <algorithm> <array> <atomic> <cmath> <cstring> <filesystem> <functional> <map> <memory> <mutex> <numeric>
  <optional> <set> <span> <sstream> <string> <unordered_map> <vector>)
function(neurim_precompiled target owner)
  get_property(first GLOBAL PROPERTY NEURIM_PRECOMPILED_${owner})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${NEURIM_PRECOMPILED} ${ARGN})
    set_property(GLOBAL PROPERTY NEURIM_PRECOMPILED_${owner} ${target})
  endif()
endfunction()

# neurim_joined(TARGET)
#   has the compiler see eight sources of TARGET as one, which takes it little longer than one does where they read the same
#   headers. What stands in their anonymous namespaces has to have different names.
function(neurim_joined target)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# neurim_apart(FILE…)
#   leaves files of the current folder out of that: their anonymous namespaces have names of others too.
function(neurim_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
