add_executable(sampling_test
  ${PROJECT_SOURCE_DIR}/tests/runtime/sampling_errors_test.cc
  ${PROJECT_SOURCE_DIR}/tests/runtime/sampling_test.cc
  ${PROJECT_SOURCE_DIR}/tests/runtime/text_stream_test.cc
)
target_include_directories(sampling_test
  PRIVATE ${PROJECT_SOURCE_DIR}/tests/formats ${PROJECT_SOURCE_DIR}/tests/report)
target_include_directories(sampling_test SYSTEM PRIVATE ${SENTENCEPIECE_INCLUDE})
target_link_libraries(sampling_test PRIVATE cosformer_sampling cosformer_data GTest::gtest_main
  fmt::fmt ${SENTENCEPIECE_TRAIN_LIBRARY} ${SENTENCEPIECE_LIBRARY})
gtest_discover_tests(sampling_test TEST_PREFIX runtime/)

# Its own program, because it replaces operator new; a sanitizer has one of its own.
if(NOT COSFORMER_SANITIZE)
  add_executable(sampling_memory_test
    ${PROJECT_SOURCE_DIR}/tests/runtime/sampling_memory_test.cc)
  target_link_libraries(sampling_memory_test PRIVATE cosformer_sampling GTest::gtest_main)
  gtest_discover_tests(sampling_memory_test TEST_PREFIX runtime/)
endif()
