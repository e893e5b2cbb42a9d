"""The file log as a streaming source of Spark, whose micro-batches carry their marks."""
