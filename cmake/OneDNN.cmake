# oneDNN as the target DNNL::dnnl: the system's, if it is version 3, else the OpenMP build of it that PyPI carries, which is for x86-64
# alone. On other processors there is no such target then, and Neurim's own kernels and the reference do all.
#
# The wheels hold the 54 MB library under three names; one of them is kept. All presets share the copy in .cache.
find_package(dnnl 3 CONFIG QUIET)
if(NOT dnnl_FOUND AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(STATUS "oneDNN 3 was not found, and PyPI has no build for ${CMAKE_SYSTEM_PROCESSOR}: building without it")
elseif(NOT dnnl_FOUND)
  include(Wheel)
  set(NEURIM_ONEDNN ${PROJECT_SOURCE_DIR}/.cache/onednn-3.2.0)
  set(data onednn_cpu_gomp-2023.2.0.data/data)
  neurim_wheel(onednn-cpu-gomp==2023.2.0
    SHA256 2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
    PLATFORM manylinux1_x86_64
    INTO ${NEURIM_ONEDNN}
    FILES ${data}/lib/libdnnl.so.3 lib/libdnnl.so.3
          ${data}/share/doc/onednn/LICENSE doc/LICENSE
          ${data}/share/doc/onednn/THIRD-PARTY-PROGRAMS doc/THIRD-PARTY-PROGRAMS)
  neurim_wheel(onednn-devel-cpu-gomp==2023.2.0
    SHA256 9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284
    PLATFORM manylinux1_x86_64
    INTO ${NEURIM_ONEDNN}
    FILES onednn_devel_cpu_gomp-2023.2.0.data/data/include include)
  add_library(DNNL::dnnl SHARED IMPORTED GLOBAL)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${NEURIM_ONEDNN}/lib/libdnnl.so.3
    IMPORTED_SONAME libdnnl.so.3
    INTERFACE_INCLUDE_DIRECTORIES ${NEURIM_ONEDNN}/include)
endif()
