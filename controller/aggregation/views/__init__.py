"""What is shown of a stream: decisions in sentences, members, segments, figures."""
