// A plug-in that was built for another release.
extern "C" const char* neurim_plugin_version() { return "neurim 0.0.1"; }
extern "C" const char* neurim_plugin_abi() { return "neurim 0.0.1, headers 0"; }
