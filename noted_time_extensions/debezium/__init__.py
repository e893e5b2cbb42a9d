"""Notes the commit times of a source database for topics of Debezium's connectors."""
