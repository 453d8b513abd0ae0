# From logits to text: what chooses tokens, and what shows them. No libtorch.
add_library(cosformer_sampling STATIC
  ${PROJECT_SOURCE_DIR}/src/runtime/sampling.cc
  ${PROJECT_SOURCE_DIR}/src/runtime/text_stream.cc
)
target_compile_features(cosformer_sampling PUBLIC cxx_std_20)
target_include_directories(cosformer_sampling
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_link_libraries(cosformer_sampling
  PUBLIC cosformer_tokenizer
  PRIVATE cosformer_kernels fmt::fmt)
