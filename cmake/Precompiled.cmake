# The headers of the standard library that most sources read, parsed once for each way in which sources are compiled.
#
# neurim_precompiled(TARGET OWNER)
#   has TARGET use what the first target called with this OWNER has precompiled: all of one OWNER are compiled with the same
#   options. The sanitizers and the preset dev do without, so that a missing #include shows.
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
