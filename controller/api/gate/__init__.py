"""Access control: who calls, which rights the caller has, and the audit log."""
