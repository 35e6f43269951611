"""Code that MySQL and MariaDB share: InnoDB's knobs, and how servers are found, started and asked."""
