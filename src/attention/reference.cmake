# The naive double-precision twin of the operator, for the tests and for the benchmark, which checks
# a result before it times it. Not installed.
add_library(cosformer_reference STATIC ${PROJECT_SOURCE_DIR}/src/attention/reference.cc)
target_include_directories(cosformer_reference PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(cosformer_reference PUBLIC cosformer::attention)
