"""What people read: status files and drift records."""
