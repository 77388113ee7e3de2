/* Names what an image shows, with a model of `neurim export format=neurim` or `neurim quantize`. Needs a C compiler alone:
 *   cc classify_image.c -I PREFIX/include -L PREFIX/lib -lneurim_rt -Wl,-rpath,PREFIX/lib -o classify_image */
#include <stdio.h>
#include <stdlib.h>

#include "neurim/runtime/neurim_rt.h"

static int failed(neurim_status status) {
  fprintf(stderr, "%s\n", neurim_last_error());
  return status;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: classify_image MODEL.neurim IMAGE...\n");
    return NEURIM_USAGE;
  }
  neurim_session* session;
  neurim_status status = neurim_open(argv[1], NULL, &session);
  if (status != NEURIM_OK) return failed(status);

  const size_t classes = neurim_class_count(session);
  float* probabilities = malloc(classes * sizeof *probabilities);
  for (int i = 2; i < argc && status == NEURIM_OK; ++i) {
    status = neurim_classify_file(session, argv[i], probabilities);
    if (status != NEURIM_OK) break;
    size_t best = 0;
    for (size_t c = 1; c < classes; ++c)
      if (probabilities[c] > probabilities[best]) best = c;
    printf("%s  %s %.6f\n", argv[i], neurim_class_name(session, best), probabilities[best]);
  }
  if (status != NEURIM_OK) failed(status);
  free(probabilities);
  neurim_close(session);
  return status;
}
