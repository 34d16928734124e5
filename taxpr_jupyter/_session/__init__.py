"""A program under edit: what is tagged, injected, folded, run and compared. No widgets."""
