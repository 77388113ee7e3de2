#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"
#include "neurim/serve/board.h"

namespace neurim::cli {

int verb_board(const Words& words) {
  CommandLine line({"board",
                    "shows runs on a page of this machine: curves that grow, options, images, reports",
                    "folder",
                    {"neurim board", "neurim board runs/classify port=8080", "neurim board runs --json"}});
  std::string folder = "runs";
  std::int64_t port = 6007;
  line.options("folder", folder, "where runs lie", {"project"});
  line.options("port", port, "of 127.0.0.1, where alone it answers; 0: any that is free");
  if (!line.parse(words)) return 0;
  require(port >= 0 && port <= 65535, "port is ", port, "; it is in [0, 65535]");
  initialize();
  Console console(line.console());
  Board board(folder);
  if (line.dry_run())
    return line.end_dry_run(console, text("show the runs in ", folder), {{"folder", folder}, {"port", port}});
  HttpServer server(static_cast<std::uint16_t>(port),
                    [&](const HttpRequest& request) { return board.answer(request); });
  const std::string address = text("http://127.0.0.1:", server.port(), "/?token=", board.token());
  console.print(text("open ", address, " in a browser of this machine; from another one: ssh -L ", server.port(),
                     ":127.0.0.1:", server.port(), " HOST; Ctrl-C ends it"));
  console.event({{"event", "board"}, {"address", address}, {"port", server.port()}});
  server.run();
  console.event({{"event", "summary"}, {"folder", folder}});
  return 0;
}

}  // namespace neurim::cli
