"""Git work trees of chats: made, set up, merged, rebased, kept and dropped."""
