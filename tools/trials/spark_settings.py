"""Settings of small Sparks on this machine: short micro-batches, the loopback and little Java."""

from tools.trials.ports import LOOPBACK

# Hadoop's default local file systems start two processes for every file of a checkpoint. With these
# and a plain compiler, a micro-batch takes 0.12 s of CPU instead of 0.3.
SMALL_BATCHES = {
    "spark.sql.shuffle.partitions": "1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.fileSource.log.compactInterval": "1000",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.pollingDelay": "1ms",
}
ON_LOOPBACK = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
