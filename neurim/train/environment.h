// The program and the machine of a run.
#pragma once
#include <string>

namespace neurim {

std::string version();           ///< "0.1.0"
std::string environment_json();  ///< version, compiler, system, processor, threads

}  // namespace neurim
