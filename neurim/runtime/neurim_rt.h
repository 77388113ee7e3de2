/* Neurim's runtime for C: runs function files (`neurim export format=neurim`, `neurim quantize`) without the command,
 * the training code or oneDNN. docs/guides/runtime.md
 *
 * Every function that can fail returns a neurim_status; neurim_last_error says why in one line. No exception leaves the
 * library. Handles are opaque. Sizes are counts of elements; arrays are row-major. A session may be used from several
 * threads at once. */
#ifndef NEURIM_RT_H
#define NEURIM_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names are those of C. NOLINTBEGIN(readability-identifier-naming) */

/* The version of this interface: it grows where a function is added; a change of what is there makes another library
 * name. */
#define NEURIM_RT_VERSION 2

#if defined(NEURIM_RT_BUILD)
#define NEURIM_RT_API __attribute__((visibility("default")))
#else
#define NEURIM_RT_API
#endif

/* What went wrong; the values are the exit codes of the command. */
typedef enum neurim_status {
  NEURIM_OK = 0,
  NEURIM_FAILURE = 1, /* a fault that none of the others names */
  NEURIM_USAGE = 2,   /* the call is wrong: an argument, a shape or a type */
  NEURIM_DATA = 3,    /* the model file or the image is missing, damaged or of a newer format */
  NEURIM_RESOURCE = 4 /* out of memory */
} neurim_status;

/* Types of elements. */
typedef enum neurim_dtype {
  NEURIM_F64 = 0,
  NEURIM_F32 = 1,
  NEURIM_F16 = 2,
  NEURIM_BF16 = 3,
  NEURIM_I64 = 4,
  NEURIM_I32 = 5,
  NEURIM_I16 = 6,
  NEURIM_I8 = 7,
  NEURIM_U64 = 8,
  NEURIM_U32 = 9,
  NEURIM_U16 = 10,
  NEURIM_U8 = 11,
  NEURIM_BOOL = 12
} neurim_dtype;

enum { NEURIM_MAX_RANK = 8 };

/* A model that is open. */
typedef struct neurim_session neurim_session;

/* How a model runs. Set `size` to sizeof(neurim_options) and what you do not need to 0. */
typedef struct neurim_options {
  size_t size;         /* of this struct, by which the library tells its version */
  uint32_t most_plans; /* signatures of inputs whose plans are kept; 0: 16 */
  uint32_t reserved;   /* 0 */
  uint32_t nhwc;       /* not 0: inputs N x C x H x W of the model are given to neurim_run as N x H x W x C */
} neurim_options;

/* An input or an output. */
typedef struct neurim_port {
  const char* name; /* lives as long as the session */
  neurim_dtype dtype;
  int32_t rank;
  int64_t sizes[NEURIM_MAX_RANK]; /* -1: any, such as the number of images */
} neurim_port;

/* An array in the caller's memory. */
typedef struct neurim_tensor {
  neurim_dtype dtype;
  int32_t rank;
  int64_t sizes[NEURIM_MAX_RANK];
  void* data;   /* inputs are only read */
  size_t bytes; /* of `data` */
} neurim_tensor;

/* NEURIM_RT_VERSION of the library. */
NEURIM_RT_API uint32_t neurim_version(void);
/* Why the last call of this thread failed; "" where it did not. Lives until the next call of this thread. */
NEURIM_RT_API const char* neurim_last_error(void);
/* How many threads compute, 1 to 1024, for the whole process: by default as many as it has processors. Before the first
 * session. */
NEURIM_RT_API neurim_status neurim_set_threads(int32_t threads);

/* Opens a function file. `options` may be NULL. On success the caller closes *session; on failure it is NULL. */
NEURIM_RT_API neurim_status neurim_open(const char* path, const neurim_options* options, neurim_session** session);
/* Opens the bytes of a function file, which the caller may free afterwards. */
NEURIM_RT_API neurim_status neurim_open_bytes(const void* bytes, size_t count, const neurim_options* options,
                                              neurim_session** session);
/* Closes a session that no thread uses any more. NULL is allowed. */
NEURIM_RT_API void neurim_close(neurim_session* session);

NEURIM_RT_API size_t neurim_input_count(const neurim_session* session);
NEURIM_RT_API size_t neurim_output_count(const neurim_session* session);
NEURIM_RT_API neurim_status neurim_input(const neurim_session* session, size_t index, neurim_port* port);
NEURIM_RT_API neurim_status neurim_output(const neurim_session* session, size_t index, neurim_port* port);
/* What the file says of itself under this key, such as "class_names"; NULL where it says nothing. Lives as long as the
 * session. */
NEURIM_RT_API const char* neurim_metadata(const neurim_session* session, const char* key);

/* Runs the model. Gives each output its dtype, rank and sizes, and writes its elements where `data` is not NULL and
 * `bytes` are enough; else it is NEURIM_USAGE, and no elements are written. With all `data` NULL the sizes alone are
 * asked for. The first call of a signature of inputs plans it. */
NEURIM_RT_API neurim_status neurim_run(const neurim_session* session, const neurim_tensor* inputs, size_t input_count,
                                       neurim_tensor* outputs, size_t output_count);

/* The classes of a model of images; 0 where it is none. */
NEURIM_RT_API size_t neurim_class_count(const neurim_session* session);
/* The name of a class; NULL beyond the last one. Lives as long as the session. */
NEURIM_RT_API const char* neurim_class_name(const neurim_session* session, size_t index);
/* The probability from which a model of several classes an image says a class; 0 for models of one class an image. */
NEURIM_RT_API double neurim_class_threshold(const neurim_session* session, size_t index);
/* Writes the probability of each class, neurim_class_count numbers, for an image of any size: a file (JPEG, PNG, WebP,
 * GIF, BMP, TIFF, PNM, NPY), its bytes, or pixels u8 height x width x channels. Resizes and normalises as the model's
 * training did. A library that was built without image formats refuses files and bytes with NEURIM_USAGE. */
NEURIM_RT_API neurim_status neurim_classify_file(const neurim_session* session, const char* path, float* probabilities);
NEURIM_RT_API neurim_status neurim_classify_bytes(const neurim_session* session, const void* bytes, size_t count,
                                                  float* probabilities);
NEURIM_RT_API neurim_status neurim_classify_pixels(const neurim_session* session, const uint8_t* pixels, int32_t height,
                                                   int32_t width, int32_t channels, float* probabilities);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
