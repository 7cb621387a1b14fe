//! A pool that was made once, and is kept: what makes it unreadable is noticed.
