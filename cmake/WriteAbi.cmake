# cmake -DVERSION=… -DHEADERS=… -DOUT=… -P: see Abi.cmake.
set(all "")
foreach(header ${HEADERS})
  file(SHA256 ${header} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "// Generated.\n#pragma once\n#define NEURIM_HEADERS \"neurim ${VERSION}, headers ${hash}\"\n")
