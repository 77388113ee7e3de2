// The two names of CUDA's that DALI's C API mentions. A CPU pipeline passes no stream and no event, so that neither
// CUDA nor its headers are needed.
#pragma once
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
